# Cross build for 64-bit ARM Linux, for tests under emulation: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Tests run under user-mode emulation; the environment variable QEMU_CPU chooses the processor.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Static programs need no ARM libraries under the emulator.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The cross compiler finds its own linker alone.
set(DELTAFIN_MOLD OFF CACHE FILEPATH "")
