# deltafin_library(name SOURCES ... LINK ...): a static library whose headers are included from the source root.
function(deltafin_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# deltafin_test(name SOURCES ... LINK ... [TIMEOUT s] [LABELS label]): one GoogleTest program; each case is a ctest entry with one label,
# LABELS or else DELTAFIN_TEST_LABEL as the folder sets it. The target tests_<label> builds all of a label's programs.
# DELTAFIN_SOURCE_DIR is defined in the sources, for fixtures.
function(deltafin_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS ${DELTAFIN_TEST_LABEL})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE DELTAFIN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  deltafin_label(${name} "${ARG_LABELS}")
endfunction()

# Lets the target tests_<label> build `name`.
function(deltafin_label name label)
  if(label AND NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  if(label)
    add_dependencies(tests_${label} ${name})
  endif()
endfunction()
