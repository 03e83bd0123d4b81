# One CTest test a test, run and judged by the program, which is built beside this build folder. The catalogue has what
# they are; of a test that this build leaves out the program says so.
#
#   is_built_<case>        set for the cases that this build has
#   LIBTORCH_RELEASE       the release
#   RECAPTURE_PROGRAM      what CTest runs

# As many of them run on the GPU at once as `recapture run` has there at most: half of ctest's --parallel, and no more
# than this.
set(RECAPTURE_TESTS_ON_GPU 8 CACHE STRING "How many of CTest's tests may use the GPU at once")

# What some cases run and no build makes. Where it cannot be fetched, they are skipped.
get_filename_component(tree ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
function(add_fetch name)
  add_test(NAME fetch_${name} COMMAND bash -c ${ARGN} WORKING_DIRECTORY ${tree})
  set_tests_properties(fetch_${name} PROPERTIES FIXTURES_SETUP ${name} SKIP_RETURN_CODE 7 TIMEOUT 1800 LABELS fetch)
endfunction()
add_fetch(nemo "ci/nemo --all")
add_fetch(transformer_engine "tools/transformer_engine 2.18.0 && tools/transformer_engine 2.20.2")

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/catalogue.json.xz)
execute_process(COMMAND xz -dc ${CMAKE_CURRENT_LIST_DIR}/catalogue.json.xz OUTPUT_VARIABLE catalogue COMMAND_ERROR_IS_FATAL ANY)
string(JSON count LENGTH "${catalogue}")
math(EXPR last "${count} - 1")
set(slot 0)
foreach(number RANGE ${last})
  string(JSON case GET "${catalogue}" ${number})
  string(JSON stem GET "${case}" id)
  if(NOT is_built_${stem} OR stem MATCHES "^operators(_later)?$")  # `recapture run` runs hundreds of them from one import.
    continue()
  endif()
  string(JSON family GET "${case}" family)
  string(JSON nature GET "${case}" nature)
  string(JSON needs GET "${case}" needs)
  string(REPLACE " " ";" needs "${needs}")
  if(ranks IN_LIST needs)
    list(APPEND needs gpu)  # One GPU at least.
  endif()
  # A surprise is repeated twice, and the canary comes first.
  string(JSON deadline GET "${case}" deadline_s)
  math(EXPR timeout "3 * ${deadline} + 60")
  set(fetched ${needs})
  list(FILTER fetched INCLUDE REGEX "^(nemo|transformer_engine)$")
  string(JSON tests GET "${case}" tests)
  string(JSON count LENGTH "${tests}")
  math(EXPR last_test "${count} - 1")
  foreach(index RANGE ${last_test})
    string(JSON test GET "${tests}" ${index} name)
    set(id ${stem}.${test})
    add_test(NAME ${id} COMMAND ${RECAPTURE_PROGRAM} dev test ${id} --release ${LIBTORCH_RELEASE})
    set_tests_properties(${id} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${timeout} FIXTURES_REQUIRED "${fetched}"
                                          LABELS "${family};${nature};${needs}")
    if(nature STREQUAL race)
      set_tests_properties(${id} PROPERTIES RUN_SERIAL ON)
    elseif(gpu IN_LIST needs)
      math(EXPR slot "(${slot} + 1) % ${RECAPTURE_TESTS_ON_GPU}")
      set_tests_properties(${id} PROPERTIES PROCESSORS 2 RESOURCE_LOCK gpu_${slot})
    endif()
  endforeach()
endforeach()
