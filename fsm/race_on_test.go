//go:build race

package fsm

// raceEnabled: tests are some ten times slower.
const raceEnabled = true
