list(APPEND unit_libraries vectorgpu_wire)
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/wire/corpus_test.cpp PROPERTIES
  COMPILE_DEFINITIONS "VECTORGPU_FUZZ_CORPUS=\"${PROJECT_SOURCE_DIR}/test/fuzz/corpus\"")
