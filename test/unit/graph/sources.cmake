# The import of a graph that hnswlib has built needs its headers (Debian: libhnswlib-dev). Sanitizers report hnswlib itself,
# which prefetches behind its arrays of links.
find_path(VECTORGPU_HNSWLIB hnswlib/hnswlib.h)
if(NOT VECTORGPU_HNSWLIB OR VECTORGPU_SANITIZE)
  message(STATUS "vectorgpu: no hnswlib found, the tests do not search its graphs")
  list(FILTER unit_sources EXCLUDE REGEX "/hnsw_import_test\\.cpp$")
endif()
