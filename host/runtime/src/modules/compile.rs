//! Compilation of components.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use latchmail_core::error::StartError;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::functions::CompiledFunctions;
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
    compile(&engine, component, None)
        .await
        .map(drop)
        .map_err(StartError::new)
}

/// Compiles a component on a separate thread. The compiler panics for rare inputs. A panic is
/// returned as an error and does not end the service.
///
/// With the engine's cache folder as `functions`, functions that an earlier component contained are
/// not compiled again ([`CompiledFunctions`]), and the functions of this component are stored.
pub(super) async fn compile(
    engine: &Engine,
    bytes: Bytes,
    functions: Option<&Path>,
) -> Result<Component, String> {
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
    let functions = functions.map(Path::to_owned);
    let compiled = tokio::task::spawn_blocking(move || {
        std::panic::catch_unwind(AssertUnwindSafe(|| {
            if let Some(cache_dir) = functions {
                compile_into_cache(&cache_dir, &bytes)?;
            }
            Component::new(&engine, bytes)
        }))
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

/// Limits the memory for functions: only one component is compiled with them at a time.
static COMPILING: Mutex<()> = Mutex::new(());

/// Compiles a component with the functions that were compiled before, into the cache from which the
/// engine of the service then loads it. The store of functions belongs to an engine of its own,
/// because a store makes each other compilation slower.
fn compile_into_cache(cache_dir: &Path, component: &[u8]) -> wasmtime::Result<()> {
    let _one = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let functions = Arc::new(CompiledFunctions::in_folder(cache_dir));
    match engine::compiler(cache_dir, Arc::clone(&functions)) {
        Ok(compiler) => drop(Component::new(&compiler, component)?),
        Err(error) => tracing::warn!(%error, "compiling all functions of a component"),
    }
    functions.save();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns a component that instantiates a core module with one function, and with a custom
    /// section with this name of one letter.
    fn component(function: &[u8], name: u8) -> Bytes {
        let code = u8::try_from(function.len()).unwrap();
        let module = [
            CORE_MODULE,
            // The type of a function without parameters and results, and the function.
            &[1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 10, code + 2, 1, code],
            function,
            &[0, 2, 1, name],
        ]
        .concat();
        let length = u8::try_from(module.len()).unwrap();
        let instance = [2, 4, 1, 0, 0, 0];
        [COMPONENT, &[1, length], &module, &instance]
            .concat()
            .into()
    }

    #[tokio::test]
    async fn a_function_is_compiled_once_for_several_components() {
        let folder = std::env::temp_dir().join(format!("lm-compile-{}", std::process::id()));
        let engine = engine::engine(1, &folder).unwrap();
        let stored = || fs::read(folder.join("functions")).unwrap();
        let compile = async |function: &[u8], name| {
            let bytes = component(function, name);
            compile(&engine, bytes, Some(&folder)).await.unwrap();
        };
        // No local variables, no instructions.
        compile(&[0, 0x0b], b'a').await;
        let first = stored();
        compile(&[0, 0x0b], b'b').await;
        assert!(stored() == first);
        // One instruction: `unreachable`.
        compile(&[0, 0, 0x0b], b'b').await;
        assert!(stored().len() > first.len());
        fs::remove_dir_all(&folder).unwrap();
    }
}
