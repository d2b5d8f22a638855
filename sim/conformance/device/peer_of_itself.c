/*
 * says: A device is not its own peer.
 * source: API, aclrtDeviceCanAccessPeer
 */
#include "../conformance.h"

RULE(peer_of_itself)
{
	INVALID(aclrtDeviceEnablePeerAccess(0, 0));
}
