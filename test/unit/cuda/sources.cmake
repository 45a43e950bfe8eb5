# The part of the CUDA engine that is arithmetic alone; no CUDA is needed.
list(APPEND unit_sources ${PROJECT_SOURCE_DIR}/gpu/cuda/device/gpu_choice.cpp
  ${PROJECT_SOURCE_DIR}/gpu/cuda/device/list_choice.cpp)
set_source_files_properties(${unit_sources} PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}/gpu)
