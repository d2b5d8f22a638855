/* Functions of a library that the player replaces so that allocations get their recorded addresses. */
#ifndef ACLTRACE_PLAYER_PLACE_H
#define ACLTRACE_PLAYER_PLACE_H

#define PLACE_VARIABLE "ACLTRACE_PLACE" /* names the file with the recorded addresses; unset: nothing is replaced */

/* Returns the function to call for a name: real, or one that calls real and places the memory. */
typedef void *place_function(void *library, const char *name, void *real);

#endif
