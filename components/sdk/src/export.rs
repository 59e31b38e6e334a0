//! The macro that exports a module as a component.

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
