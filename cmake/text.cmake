# cmake -DFROM=file -DTO=file.c -DNAME=name -P text.cmake: a file as a C string
file(READ ${FROM} text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE ${TO} "extern const char ${NAME}[];\nconst char ${NAME}[] =\n\"${text}\";\n")
