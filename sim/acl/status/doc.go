// Package status converts between failures of the emulated device and error codes of AscendCL.
//
// It has no state. sim/acl and its sub-packages call it wherever they create or return a failure. It is the only place
// that maps codes.
package status
