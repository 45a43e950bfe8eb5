list(APPEND unit_libraries vectorgpu_wire)
