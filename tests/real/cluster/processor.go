package cluster

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// The kernel tells processor time in hundredths of a second, whatever its own clock is.
const tick = 10 * time.Millisecond

// The fields of /proc/PID/stat that follow the name, which may itself contain spaces: user time is the 14th of all and system
// time the 15th.
const (
	afterName  = 2
	userTime   = 14 - afterName - 1
	systemTime = 15 - afterName - 1
)

// ProcessorTime is what a process has used so far, all its threads together.
func ProcessorTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseProcessorTime(raw)
}

func parseProcessorTime(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= systemTime {
		return 0, fmt.Errorf("unreadable stat %q", stat)
	}
	var used time.Duration
	for _, field := range fields[userTime : systemTime+1] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		used += time.Duration(ticks) * tick
	}
	return used, nil
}
