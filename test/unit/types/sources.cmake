list(APPEND unit_sources ${PROJECT_SOURCE_DIR}/src/types/match/number_key.cpp ${PROJECT_SOURCE_DIR}/src/types/match/number_text.cpp)
