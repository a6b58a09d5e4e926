# cmake -DFROM=file [-DTHEN=file] -DTO=file.c -DNAME=name -P text.cmake: a file, or
# two one after the other, as a C string
file(READ ${FROM} text)
if(THEN)
  file(READ ${THEN} more)
  string(APPEND text "${more}")
endif()
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE ${TO} "extern const char ${NAME}[];\nconst char ${NAME}[] =\n\"${text}\";\n")
