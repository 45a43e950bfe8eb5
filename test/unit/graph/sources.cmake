# The import of a graph that hnswlib has built needs its headers (Debian: libhnswlib-dev).
find_path(VECTORGPU_HNSWLIB hnswlib/hnswlib.h)
if(NOT VECTORGPU_HNSWLIB)
  message(STATUS "vectorgpu: no hnswlib found, its graphs are not searched in the tests")
  list(FILTER unit_sources EXCLUDE REGEX "/hnsw_import_test\\.cpp$")
endif()
