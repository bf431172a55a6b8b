// Package proc runs the processes of a comparison and reads what they use: groups of servers, workers that take their
// orders line by line, free ports, CPU time and memory from /proc. It is for Linux.
//
// Every process that it starts dies with this one, however this one ends.
package proc
