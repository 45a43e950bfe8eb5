list(APPEND unit_libraries vectorgpu_worker_lib)
# The tests that start the real executable know where the build puts it.
set_source_files_properties(${unit_sources} PROPERTIES COMPILE_DEFINITIONS
  "VECTORGPU_WORKER_PATH=\"$<TARGET_FILE:vectorgpu_worker>\"")
