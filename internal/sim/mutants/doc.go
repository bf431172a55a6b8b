// Mutants checks the tests: it breaks the code in one place at a time, on purpose, and sees that a test fails.
//
//	go run ./internal/sim/mutants                      each mutant against the tests that are named for it
//	go run ./internal/sim/mutants -run 'expiry/.*'     some of them
//	go run ./internal/sim/mutants -all                 each against every test of the packages concerned
//	go run ./internal/sim/mutants -seeds 20            each against 20 seeds of random faults as well
//	go run ./internal/sim/mutants -markdown            the table of docs/RELIABILITY.md
//
// A mutant replaces a piece of one or two source files by another. The go tool reads the changed files through its
// -overlay flag, so nothing is written into the tree and no switch for it is in the code. The pieces must occur exactly
// once; a test of this package sees to that, so that a mutant cannot be lost when the code moves on.
//
// The named tests run with -short, and have to pass without the mutant: a test that fails anyway kills nothing. A run that takes too long
// counts as killed too, and is reported as a hang. A mutant that does not compile is an error. The exit status is 1 if
// one survives, or if anything is wrong with one.
//
// Some mutants survive any number of random faults, because the schedule that shows them is too unlikely. Those have a
// directed schedule: a test that makes just that happen.
//
// Code whose removal cannot be noticed is not in the list: see equivalents.go for what was tried and why it is so.
package main
