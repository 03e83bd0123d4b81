# The files that the program reads. With them it runs on a machine without a compiler.
include(${CMAKE_CURRENT_LIST_DIR}/records.cmake)
install_records(${CMAKE_SOURCE_DIR} share/recapture)
install(FILES ${CMAKE_SOURCE_DIR}/docs/reference/recapture.1 DESTINATION share/man/man1)
install(FILES ${CMAKE_SOURCE_DIR}/harness/completion/recapture.bash DESTINATION share/bash-completion/completions
        RENAME recapture)
install(FILES ${CMAKE_SOURCE_DIR}/harness/completion/_recapture DESTINATION share/zsh/site-functions)
install(FILES ${CMAKE_SOURCE_DIR}/harness/completion/recapture.fish DESTINATION share/fish/vendor_completions.d)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION share/recapture)
# The recorder runs it inside a program with `--features`.
install(FILES ${CMAKE_SOURCE_DIR}/python/recapture/_features.py DESTINATION share/recapture/python/recapture)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/SKILL.md
              ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${CMAKE_SOURCE_DIR}/SECURITY.md
        DESTINATION share/recapture)
# The revision that `recapture --version` prints where there is no clone. Asked on installing: a build may be older.
install(CODE "
execute_process(COMMAND git -C \"${CMAKE_SOURCE_DIR}\" describe --always --dirty OUTPUT_VARIABLE revision ERROR_QUIET)
if(revision)
  file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/recapture/revision\" \"\${revision}\")
endif()")
