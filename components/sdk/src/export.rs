//! The macros that export a module and handlers as a component.

/// Exports a module: `export!(module)`. `module` is the name of a function
/// `fn module<H: …>() -> Module<H>`. The bounds of `H` are the needed capabilities.
///
/// The macro expands to nothing on targets other than WebAssembly. The crate can therefore be
/// tested as a plain library.
#[macro_export]
macro_rules! export {
    ($module:ident) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, missing_docs, reason = "generated exports")]
        mod component {
            use $crate::bindings::exports::latchmail::host::module::{
                Guest, Manifest, Request, Response,
            };

            struct Component;

            impl Guest for Component {
                fn describe() -> Manifest {
                    super::$module::<$crate::capability::Host>().manifest()
                }

                fn handle(operation: String, request: Request) -> Response {
                    super::$module::<$crate::capability::Host>()
                        .serve(&$crate::capability::Host, &operation, &request.into())
                        .into()
                }
            }

            $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        }
    };
}

/// Exports handlers: `export_handlers!(handlers)`. `handlers` is the name of a function
/// `fn handlers<H: …>() -> Handlers<H>`. The bounds of `H` are the needed capabilities. A component
/// can export handlers alone, or beside a module ([`export!`](crate::export)).
///
/// The macro expands to nothing on targets other than WebAssembly.
#[macro_export]
macro_rules! export_handlers {
    ($handlers:ident) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, missing_docs, reason = "generated exports")]
        mod handler_component {
            use $crate::bindings::event_handlers::exports::latchmail::host::handlers::{
                Event, Guest, Outcome, SubscriptionSet,
            };

            struct Component;

            impl Guest for Component {
                fn subscriptions() -> SubscriptionSet {
                    super::$handlers::<$crate::capability::Host>().subscriptions()
                }

                fn on_event(event: Event) -> Outcome {
                    super::$handlers::<$crate::capability::Host>()
                        .handle_event(&$crate::capability::Host, &event)
                }

                fn on_timer(name: String) -> Outcome {
                    super::$handlers::<$crate::capability::Host>()
                        .handle_timer(&$crate::capability::Host, &name)
                }
            }

            $crate::bindings::event_handlers::export_event_handlers!(
                Component with_types_in $crate::bindings::event_handlers
            );
        }
    };
}
