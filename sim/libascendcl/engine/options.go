//go:build cgo

package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/kernellib"
	sim "github.com/acltrace/acltrace/sim/acl"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/opapi/compute"
)

// optionsFromEnv reads the options. Invalid values cause a warning and are ignored.
func optionsFromEnv() *sim.Options {
	o := &sim.Options{Kernels: named(getenv("ACLSIM_KERNELS")), Operators: compute.Operators{}}
	if getenv("ACLSIM_KERNELS_BESIDE") == "1" {
		o.Beside = beside
	}
	if list := getenv("ACLSIM_KERNELS_LOG"); list != "" {
		o.Missing = func(kernel string) {
			if err := kernellib.AppendMissing(list, kernel); err != nil {
				warn("report missing kernel %s: ACLSIM_KERNELS_LOG: %v", kernel, err)
			}
		}
	}
	o.NotComputed = func(kernel string) {
		watchEnd() // the program may not call aclFinalize
		if list := getenv("ACLSIM_KERNELS_LOG"); list != "" {
			if err := kernellib.AppendNotComputed(list, kernel); err != nil {
				warn("report operator %s: ACLSIM_KERNELS_LOG: %v", kernel, err)
			}
		}
	}
	if v := getenv("ACLSIM_VA_BASE"); v != "" {
		base, err := parseHex(v)
		if err != nil || base == 0 || base%(2<<20) != 0 {
			warn("ignore ACLSIM_VA_BASE=%s: want a hexadecimal multiple of 2 MiB, for example 0x550000000000", v)
		} else {
			o.VABase = base
		}
	}
	if v := getenv("ACLSIM_DEVICES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > device.MaxDevices {
			warn("ignore ACLSIM_DEVICES=%s: want a number from 1 to %d", v, device.MaxDevices)
		} else {
			o.Devices = n
		}
	}
	if v, set := lookupEnv("ASCEND_RT_VISIBLE_DEVICES"); set {
		if o.Visible = sim.Visible(v, max(o.Devices, 1)); len(o.Visible) == 0 {
			warn("no device is visible: ASCEND_RT_VISIBLE_DEVICES=%s, and ACLSIM_DEVICES=%d", v, max(o.Devices, 1))
		}
	}
	switch v := getenv("ACLSIM_CLOCK"); v {
	case "", "real":
	case "virtual":
		o.Virtual = true
	default:
		warn("ignore ACLSIM_CLOCK=%s: want real or virtual", v)
	}
	if v := getenv("ACLSIM_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			warn("ignore ACLSIM_SEED=%s: want a decimal number", v)
		}
		o.Seed = seed
	}
	if v := getenv("ACLSIM_MODEL"); v != "" {
		m, err := model.Load(v)
		if err != nil {
			warn("ignore ACLSIM_MODEL: %v; the cost model is %s", err, model.Default)
		}
		o.Model = m
	}
	if v := getenv("ACLSIM_FAULTS"); v != "" {
		faults, err := fault.Parse(v, o.Seed)
		if err != nil {
			warn("ignore ACLSIM_FAULTS: %v; no fault is injected", err)
		}
		o.Faults = faults
	}
	switch v := getenv("ACLSIM_ANSWERS"); v {
	case "", "runtime":
	case "documents":
		o.Documented = true
	default:
		warn("ignore ACLSIM_ANSWERS=%s: want runtime or documents", v)
	}
	o.Uninitialised = getenv("ACLSIM_UNINITIALISED") == "1"
	o.Strict = strictFromEnv()
	if path := getenv("ACLSIM_PLACE"); path != "" {
		place, err := readPlaces(path)
		if err != nil {
			warn("ignore ACLSIM_PLACE: %v; allocations get their default addresses", err)
		}
		o.Place = place
	}
	return o
}

func warn(format string, a ...any) { fmt.Fprintf(os.Stderr, "aclsim: "+format+"\n", a...) }

func parseHex(s string) (uint64, error) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	return strconv.ParseUint(s, 16, 64)
}

// readPlaces reads a list of hexadecimal addresses, one per line; 0 for any address.
func readPlaces(path string) ([]uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var place []uint64
	s := bufio.NewScanner(f)
	for n := 1; s.Scan(); n++ {
		l, _, _ := strings.Cut(s.Text(), "#")
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		a, err := parseHex(l)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: invalid address %q: want hexadecimal digits", path, n, l)
		}
		place = append(place, a)
	}
	return place, s.Err()
}
