// Package lint is the project's rules, as tests: what may import what, how long a file may be, where time may pass. A
// rule says why it is there, and a failure says what to do. Exceptions are listed beside their rule, each with its
// reason.
//
// The rules read the source of the main module alone: a folder with a go.mod of its own is another module.
package lint
