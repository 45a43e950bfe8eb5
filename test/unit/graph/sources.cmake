# The import of a graph that hnswlib has built needs its headers (Debian: libhnswlib-dev). Sanitizers object to hnswlib itself, which
# reads behind its arrays of links when it prefetches.
find_path(VECTORGPU_HNSWLIB hnswlib/hnswlib.h)
if(NOT VECTORGPU_HNSWLIB OR VECTORGPU_SANITIZE)
  message(STATUS "vectorgpu: no hnswlib to use, its graphs are not searched in the tests")
  list(FILTER unit_sources EXCLUDE REGEX "/hnsw_import_test\\.cpp$")
endif()
