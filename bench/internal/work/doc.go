// Package work is the workloads: what is done with a service, and which numbers come of it. One code serves all services.
//
// A workload declares its metrics, which are the rows of the table, and records a value or more for each. It bounds
// itself in time by its sizes; whoever runs it bounds it by a context besides.
package work
