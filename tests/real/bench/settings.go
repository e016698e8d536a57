package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// settings are what a run can be told by its environment.
type settings struct {
	cell    time.Duration // BENCH_SECONDS: how long each way of asking is measured in each cell
	objects int           // BENCH_OBJECTS: the size of the large collection
	lists   int           // BENCH_LISTS: lists a second; of pages a quarter
	watches int           // BENCH_WATCHES: named WatchLists of the kubelet scenario
	rate    int           // BENCH_RATE: how many of them are begun a second
	servers int           // BENCH_SERVERS: over how many apiservers the clients of upstream are spread; weir's feed reads one
}

// slowShare is the part of the rate at which the kubelet scenario is run a second time: what is no longer missed then was
// missed for want of processors.
const slowShare = 5

func readSettings() (settings, error) {
	numbers := map[string]int{
		"BENCH_SECONDS": 8, "BENCH_OBJECTS": 100_000, "BENCH_LISTS": 40, "BENCH_WATCHES": 10_000, "BENCH_RATE": 1_000,
		"BENCH_SERVERS": 2,
	}
	for name := range numbers {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			return settings{}, fmt.Errorf("%s=%q is no positive number", name, text)
		}
		numbers[name] = number
	}
	return settings{
		cell:    time.Duration(numbers["BENCH_SECONDS"]) * time.Second,
		objects: numbers["BENCH_OBJECTS"],
		lists:   numbers["BENCH_LISTS"],
		watches: numbers["BENCH_WATCHES"],
		rate:    numbers["BENCH_RATE"],
		servers: numbers["BENCH_SERVERS"],
	}, nil
}

// slow is the run of the kubelet scenario at a part of the rate, over the same time.
func (s settings) slow() settings {
	s.rate = max(1, s.rate/slowShare)
	s.watches = max(1, s.watches/slowShare)
	return s
}
