// Package modes says how the environment asks for the tests to be run. Both modes are off unless their variable has a value,
// whichever it is.
package modes

import "os"

// IsPlain asks for an apiserver in weir's place, which shows whether the expectations themselves are right.
func IsPlain() bool { return os.Getenv("WEIR_PLAIN") != "" }

// IsLong asks for the long modes.
func IsLong() bool { return os.Getenv("WEIR_LONG") != "" }
