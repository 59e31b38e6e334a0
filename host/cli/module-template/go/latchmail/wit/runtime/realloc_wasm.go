package runtime

import "unsafe"

// Whether Go can allocate memory. The host calls cabi_realloc before Go has started, for the
// adapter of WASI.
var started bool

func init() {
	started = true
}

//go:linkname sbrk runtime.sbrk
func sbrk(size uintptr) unsafe.Pointer

// Makes the adapter of WASI return the last time instead of reading the clock. The garbage
// collector reads the clock, but a component must not call the host while the host asks it for
// memory.
//
//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused bool)

//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if old != nil || oldSize != 0 {
		panic("the host does not resize memory")
	}
	if !started {
		start := uintptr(sbrk(size + align))
		return unsafe.Pointer((start + align - 1) &^ (align - 1))
	}
	pauseClock(true)
	memory := Allocate(&received, size, align)
	pauseClock(false)
	return memory
}
