# What the program reads: with it, enough for a machine without a compiler.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/cases ${CMAKE_SOURCE_DIR}/fixtures ${CMAKE_SOURCE_DIR}/reports
        DESTINATION share/recapture
        PATTERN CMakeLists.txt EXCLUDE
        REGEX "/reports/(index\\.html|failures\\.md|documents\\.md)$" EXCLUDE)  # tools/tables makes them; git ignores them.
install(FILES ${CMAKE_SOURCE_DIR}/docs/reference/recapture.1 DESTINATION share/man/man1)
install(FILES ${CMAKE_SOURCE_DIR}/harness/completion/recapture.bash DESTINATION share/bash-completion/completions
        RENAME recapture)
install(FILES ${CMAKE_SOURCE_DIR}/harness/completion/_recapture DESTINATION share/zsh/site-functions)
install(FILES ${CMAKE_SOURCE_DIR}/harness/completion/recapture.fish DESTINATION share/fish/vendor_completions.d)
install(FILES ${CMAKE_SOURCE_DIR}/ci/matrix.toml DESTINATION share/recapture/ci)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION share/recapture)
# The recorder runs it inside a program whose features are observed.
install(FILES ${CMAKE_SOURCE_DIR}/python/recapture/_features.py DESTINATION share/recapture/python/recapture)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/SKILL.md
        DESTINATION share/recapture)
