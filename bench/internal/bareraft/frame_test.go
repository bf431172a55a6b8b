package bareraft

import (
	"bufio"
	"bytes"
	"reflect"
	"testing"
)

func TestFrame(t *testing.T) {
	var wire bytes.Buffer
	w := bufio.NewWriter(&wire)
	frames := []frame{{1, kindApply, []byte("payload")}, {2, kindOK, []byte{}}}
	for _, f := range frames {
		if err := f.write(w); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(&wire)
	for _, want := range frames {
		if got, err := readFrame(r); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if _, err := readFrame(r); err == nil {
		t.Error("a frame of nothing")
	}
	long := bytes.Repeat([]byte{0xff}, headSize)
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(long))); err == nil {
		t.Error("a frame of 4 GiB was taken")
	}
}
