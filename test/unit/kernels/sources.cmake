# Code that the kernels share with the host; no CUDA is needed.
set_source_files_properties(${unit_sources} PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}/gpu)
