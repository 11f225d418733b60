# deltafin_fuzz(name SOURCES ... LINK ... CORPUS ... [ITERATIONS n]): a program from sources that define
# LLVMFuzzerTestOneInput. In the preset `fuzz` it is a libFuzzer program; in others it replays the corpus and a fixed
# number of deterministic mutations of it. CORPUS: files and folders of seed inputs. The ctest entry is bounded by
# ITERATIONS (default 100000), so that it takes seconds; under libFuzzer by DELTAFIN_FUZZ_SECONDS of the environment
# instead, where that is set.
set(DELTAFIN_FUZZ_DIR ${CMAKE_CURRENT_LIST_DIR})

function(deltafin_fuzz name)
  cmake_parse_arguments(ARG "" "ITERATIONS" "SOURCES;LINK;CORPUS" ${ARGN})
  if(NOT ARG_ITERATIONS)
    set(ARG_ITERATIONS 100000)
  endif()
  set(corpus)
  foreach(seed IN LISTS ARG_CORPUS)
    get_filename_component(seed ${seed} ABSOLUTE)
    list(APPEND corpus ${seed})
  endforeach()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  if(DELTAFIN_SANITIZE MATCHES "fuzzer-no-link")
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/${name} "-DCORPUS=${corpus}"
             -DPROGRAM=$<TARGET_FILE:${name}> -DRUNS=${ARG_ITERATIONS} -P ${DELTAFIN_FUZZ_DIR}/run_libfuzzer.cmake)
    set(timeout 604800)  # libFuzzer keeps its own bounds
  else()
    set(timeout 300)
    if(NOT TARGET deltafin_fuzz_replay)
      add_library(deltafin_fuzz_replay OBJECT ${DELTAFIN_FUZZ_DIR}/replay_driver.cc ${DELTAFIN_FUZZ_DIR}/mutator.cc)
      target_include_directories(deltafin_fuzz_replay PRIVATE ${PROJECT_SOURCE_DIR})
    endif()
    target_link_libraries(${name} PRIVATE deltafin_fuzz_replay)
    add_test(NAME ${name} COMMAND ${name} --mutations ${ARG_ITERATIONS} ${corpus})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
  deltafin_label(${name} fuzz)
endfunction()
