/* See libdl.c. In 2.29 these functions got new versions, which set no errno. */
void exp(void) {}
void log(void) {}
void pow(void) {}
