// Package types has the generic types of the contract: `option`, `result` and `tuple`. The
// generated bindings use them.
package types

// OptionNone and OptionSome are the tags of an Option.
const (
	OptionNone = 0
	OptionSome = 1
)

// ResultOk and ResultErr are the tags of a Result.
const (
	ResultOk  = 0
	ResultErr = 1
)

// Option is a value that can be missing.
type Option[T any] struct {
	tag   uint8
	value T
}

// None returns an option without a value.
func None[T any]() Option[T] {
	return Option[T]{}
}

// Some returns an option with a value.
func Some[T any](value T) Option[T] {
	return Option[T]{tag: OptionSome, value: value}
}

// Tag returns OptionNone or OptionSome.
func (o Option[T]) Tag() uint8 {
	return o.tag
}

// Some returns the value. It panics if there is none.
func (o Option[T]) Some() T {
	if o.tag != OptionSome {
		panic("the option has no value")
	}
	return o.value
}

// Get returns the value, and whether there is one.
func (o Option[T]) Get() (T, bool) {
	return o.value, o.tag == OptionSome
}

// Unit is the value of a result without a value.
type Unit struct{}

// Result is the value or the error of a call.
type Result[T, E any] struct {
	tag   uint8
	value T
	err   E
}

// Ok returns the result of a call that succeeded.
func Ok[T, E any](value T) Result[T, E] {
	return Result[T, E]{value: value}
}

// Err returns the result of a call that failed.
func Err[T, E any](err E) Result[T, E] {
	return Result[T, E]{tag: ResultErr, err: err}
}

// Tag returns ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 {
	return r.tag
}

// Ok returns the value. It panics if the call failed.
func (r Result[T, E]) Ok() T {
	if r.tag != ResultOk {
		panic("the result is an error")
	}
	return r.value
}

// Err returns the error. It panics if the call succeeded.
func (r Result[T, E]) Err() E {
	if r.tag != ResultErr {
		panic("the result is not an error")
	}
	return r.err
}

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}
