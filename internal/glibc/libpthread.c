/* See libdl.c. */
void pthread_attr_getstack(void) {}
void pthread_attr_getstacksize(void) {}
void pthread_attr_setstack(void) {}
void pthread_create(void) {}
void pthread_detach(void) {}
void pthread_getattr_np(void) {}
void pthread_getspecific(void) {}
void pthread_join(void) {}
void pthread_key_create(void) {}
void pthread_once(void) {}
void pthread_setspecific(void) {}
void pthread_sigmask(void) {}
