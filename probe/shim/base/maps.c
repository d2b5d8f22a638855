#include "base/maps.h"

#include <asm/fcntl.h>

#include "base/sys.h"

struct mapping find_mapping(uint64_t addr)
{
	static const char suffix[] = "(deleted)";
	struct mapping m = {0};
	uint64_t from = 0, number = 0;
	size_t matched = 0;
	enum { FROM, TO, REST } at = FROM;
	char text[512];
	bool over = false;
	long fd = sys_open("/proc/self/maps", O_RDONLY);
	for (long n; fd >= 0 && !over && (n = sys3(__NR_read, fd, text, sizeof text)) > 0;)
		for (long i = 0; i < n && !over; i++) {
			char c = text[i];
			if (c == '\n') {
				over = m.end != 0;
				m.deleted = over && matched == sizeof suffix - 1;
				at = FROM, number = 0, matched = 0;
			} else if (at == REST) {
				matched = matched < sizeof suffix - 1 && c == suffix[matched] ? matched + 1 : c == suffix[0];
			} else if (c == '-') {
				from = number, number = 0, at = TO;
			} else if (c == ' ') {
				at = REST;
				if (addr >= from && addr < number)
					m.start = from, m.end = number;
			} else {
				number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
			}
		}
	if (fd >= 0)
		sys1(__NR_close, fd);
	return m;
}
