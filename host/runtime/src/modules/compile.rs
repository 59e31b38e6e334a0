//! Compilation of components.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use bytes::Bytes;
use latchmail_core::error::StartError;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::{engine, mount};

/// The first eight bytes of a component, and the first eight bytes of a core module.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Compiles a component into the cache in `cache_dir`. A service with the same cache folder can
/// load the component without compilation.
///
/// # Errors
/// Returns an error if the folder cannot be used, or if the component cannot be compiled.
pub async fn precompile(cache_dir: &Path, component: Bytes) -> Result<(), StartError> {
    let engine = engine::engine(1, cache_dir)?;
    compile(&engine, component)
        .await
        .map(drop)
        .map_err(StartError::new)
}

/// Compiles a component on a separate thread. The compiler panics for rare inputs. A panic is
/// returned as an error and does not end the service.
pub(super) async fn compile(engine: &Engine, bytes: Bytes) -> Result<Component, String> {
    match bytes.get(..8) {
        Some(COMPONENT) => {}
        Some(CORE_MODULE) => {
            return Err(
                "it is a core WebAssembly module, not a component; in Rust, build it for wasm32-wasip2"
                    .into(),
            );
        }
        _ => return Err("it is not a WebAssembly component".into()),
    }
    let engine = engine.clone();
    let source = bytes.clone();
    let compiled = tokio::task::spawn_blocking(move || {
        std::panic::catch_unwind(AssertUnwindSafe(|| Component::new(&engine, bytes)))
    })
    .await;
    match compiled {
        Ok(Ok(Ok(component))) => Ok(component),
        Ok(Ok(Err(error))) => Err(format!(
            "it cannot be compiled: {error:#}{}",
            mount::compilation_advice(&source)
        )),
        Ok(Err(_)) | Err(_) => Err("the compiler panicked".into()),
    }
}
