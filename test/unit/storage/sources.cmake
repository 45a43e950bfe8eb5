# The module's own sources for the layout of pages, compiled with the server's headers. The server functions that they call
# are in fake_buffers.cpp here and fake_server.cpp of test/fuzz, or stay unresolved. Without the headers there is no test.
find_program(VECTORGPU_PG_CONFIG pg_config PATHS /usr/lib/postgresql/15/bin)
if(VECTORGPU_PG_CONFIG)
  execute_process(COMMAND ${VECTORGPU_PG_CONFIG} --includedir-server OUTPUT_VARIABLE storage_include OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(EXISTS "${storage_include}/postgres.h")
  set(storage_sources storage/stream storage/stream_writer storage/page storage/page_run storage/extent storage/metapage storage/segment_writer storage/delta
    am/feed/copy_feed am/feed/feed_session am/feed/feed_tombstones pg/block_stream pg/compat)
  list(TRANSFORM storage_sources PREPEND ${PROJECT_SOURCE_DIR}/src/)
  list(TRANSFORM storage_sources APPEND .cpp)
  # PG dialect: no -Wshadow.
  add_library(unit_storage_sources STATIC ${storage_sources} ${PROJECT_SOURCE_DIR}/test/fuzz/fake_server.cpp)
  target_include_directories(unit_storage_sources PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/test/fuzz)
  target_include_directories(unit_storage_sources SYSTEM PUBLIC ${storage_include})
  target_compile_definitions(unit_storage_sources PUBLIC _GNU_SOURCE)
  target_compile_options(unit_storage_sources PRIVATE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -ffp-contract=off
    $<$<BOOL:${VECTORGPU_WERROR}>:-Werror> ${vectorgpu_sanitize})
  # The functions of the test itself go before those of the library.
  target_link_options(unit_storage_sources PUBLIC -no-pie -Wl,--unresolved-symbols=ignore-all -Wl,-z,muldefs)
  list(APPEND unit_sources ${CMAKE_CURRENT_SOURCE_DIR}/storage/fake_buffers.cpp)
  set(unit_libraries unit_storage_sources)
else()
  message(STATUS "vectorgpu: no headers of a PostgreSQL server found, no unit tests of the layout of pages")
  set(unit_sources "")
endif()
