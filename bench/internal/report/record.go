// Package report turns what was measured into one table: a row for each metric, a column for each service, in each cell the
// median of the runs and, as noise, the smallest and the largest.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Record is one thing that happened in one run of a workload: a value of a metric, or why there is none, or how busy the
// machine was with other things.
type Record struct {
	Backend  string  `json:"backend"`
	Workload string  `json:"workload"`
	Run      int     `json:"run"`
	Metric   string  `json:"metric,omitempty"`
	Value    float64 `json:"value,omitempty"`
	Error    string  `json:"error,omitempty"`
	Never    bool    `json:"never,omitempty"` // the service has nothing of the kind
	// Of a timed part: the share of the machine's CPUs that others used.
	Others float64 `json:"others,omitempty"`
}

// ReadFile reads records, one on each line. A last line that was cut off is left out.
func ReadFile(name string) ([]Record, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var records []Record
	lines := bufio.NewScanner(f)
	var bad error
	for n := 1; lines.Scan(); n++ {
		if bad != nil {
			return nil, bad
		}
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			bad = fmt.Errorf("%s: line %d: %w", name, n, err)
			continue
		}
		records = append(records, r)
	}
	if lines.Err() != nil {
		return nil, lines.Err()
	}
	if len(records) == 0 {
		return nil, errors.Join(fmt.Errorf("%s: nothing was measured", name), bad)
	}
	return records, nil
}
