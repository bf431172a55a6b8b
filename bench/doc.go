// Command bench measures coord beside the services that programs use for locks and coordination today, with one code for
// all, in one table:
//
//	go -C bench run .            # everything, about 25 minutes
//	go -C bench run . -short     # a smoke test of everything, under 5 minutes: its figures mean little
//	go -C bench run . -h         # backends, workloads and flags
//
// README.md says what is compared and how to read it. It runs on Linux.
package main
