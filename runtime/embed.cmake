# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=FILE -DNAME=SYMBOL -DHEADER=HEADER -DOUTPUT=FILE.c [-DCOMPRESSED=ON] -P embed.cmake: a file's bytes as an array in C, or
# what gzip makes of them. HEADER declares SYMBOL and SYMBOL_size.
if(COMPRESSED)
  file(ARCHIVE_CREATE OUTPUT ${OUTPUT}.gz PATHS ${INPUT} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9 MTIME 1970-01-02)
  set(INPUT ${OUTPUT}.gz)
endif()
file(READ ${INPUT} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}\n};\nconst size_t ${NAME}_size = ${size};\n")
