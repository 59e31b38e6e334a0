// Package runtime connects the generated bindings with the memory of Go: the handles of the host's
// objects, and the memory for values that cross the border of the component.
package runtime

import (
	"runtime"
	"unsafe"
)

// Handle is the number of an object of the host. The number 0 stands for no object.
type Handle struct {
	number int32
}

// MakeHandle returns a handle.
func MakeHandle(number int32) *Handle {
	if number == 0 {
		panic("an object of the host has the number 0")
	}
	return &Handle{number}
}

// Use returns the number. It panics if the object was given away or dropped.
func (h *Handle) Use() int32 {
	if h.number == 0 {
		panic("the object was given away or dropped")
	}
	return h.number
}

// Take returns the number and clears the handle. It panics as Use does.
func (h *Handle) Take() int32 {
	number := h.Use()
	h.number = 0
	return number
}

// TakeOrNil returns the number, or 0 if the handle has none, and clears the handle.
func (h *Handle) TakeOrNil() int32 {
	number := h.number
	h.number = 0
	return number
}

// Set gives a number to a handle that has none.
func (h *Handle) Set(number int32) {
	if number == 0 || h.number != 0 {
		panic("the handle has an object already, or there is no object")
	}
	h.number = number
}

// Allocate returns zeroed memory that stays at its place until the pinner is released.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	// The largest alignment of the component model is 8, so a slice of this type fits all values.
	// A slice of bytes without pointers can have any address.
	var memory unsafe.Pointer
	if align == 1 {
		memory = unsafe.Pointer(unsafe.SliceData(make([]byte, size)))
	} else {
		memory = unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	}
	pinner.Pin(memory)
	return memory
}

// The memory of values from the host: the results of its functions, and the arguments of exported
// functions. It is pinned until the bindings have read the values.
var received runtime.Pinner

// Unpin releases the memory of values from the host. Go then frees what is no longer used.
func Unpin() {
	received.Unpin()
}
