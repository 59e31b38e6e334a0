//! The Wasmtime engine of the service. Its settings for memory allocation, limits and interruption
//! apply to all sandboxes.
//!
//! Creating a sandbox takes about 20 µs (measured) with a pool, `PAGEMAP_SCAN`, and copy-on-write
//! reset of the memory. Support for concurrent guest tasks is disabled, because this support makes
//! calls slower and no interface of this host needs it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use latchmail_core::error::StartError;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::cache::cache;
use super::functions::CompiledFunctions;

/// The interval between two ticks while a guest runs. A tick increments the engine's epoch, and a
/// running guest then yields. If every thread runs a guest, another task can wait for this time
/// before each of its steps.
const TICK: Duration = Duration::from_millis(1);
/// The interval between two ticks while no guest runs. The longer interval lets the CPU sleep.
const IDLE_TICK: Duration = Duration::from_millis(10);

/// The maximum memory of a module, in MiB. Every entry of the engine's pool can use this much
/// memory.
pub(crate) const MAX_MEMORY_MIB: u32 = 256;

/// The maximum number of core instances of one component, and the maximum number of its tables. A
/// Rust component has two core modules and the adapter shims. A Python component has 14 core
/// modules, because each library of the Python interpreter is a separate module.
const CORE_INSTANCES_EACH: u32 = 16;
const TABLES_EACH: u32 = 4;

/// The amount of memory that stays mapped in an unused entry of the pool, in bytes. A small request
/// uses about this much memory.
const KEEP_RESIDENT: usize = 256 * 1024;

/// The stack size for the functions of a guest, and the stack size of a fiber, in bytes. The stack
/// of a fiber also contains the host functions. An overflow there ends the process, and without
/// optimizations a search with a sync of the mailbox needs more than 512 KiB. Only the pages that
/// were used take memory.
const GUEST_STACK: usize = 512 * 1024;
const FIBER_STACK: usize = GUEST_STACK + 1536 * 1024;

/// Creates the engine with a pool of `sandboxes` entries, and starts its ticker. Compiled
/// components are cached in the folder `cache_dir`. The key of a cache entry consists of the digest
/// of the component's bytes, the version of the engine, and the engine's settings.
///
/// # Errors
/// Returns an error if the cache folder cannot be used, or if the machine does not have enough
/// memory for the pool.
pub fn engine(sandboxes: u32, cache_dir: &Path) -> Result<Engine, StartError> {
    let engine = create(&config(sandboxes, cache_dir)?)?;
    tick(&engine)?;
    Ok(engine)
}

/// Creates an engine that only compiles components, into the same cache as [`engine`], and does not
/// compile functions again that were compiled before.
pub(super) fn compiler(
    cache_dir: &Path,
    functions: Arc<CompiledFunctions>,
) -> Result<Engine, StartError> {
    let mut config = config(1, cache_dir)?;
    config
        .enable_incremental_compilation(functions)
        .map_err(|e| StartError::new(format!("compiled functions cannot be reused: {e:#}")))?;
    create(&config)
}

fn create(config: &Config) -> Result<Engine, StartError> {
    Engine::new(config)
        .map_err(|e| StartError::new(format!("failed to create the sandbox engine: {e:#}")))
}

/// Returns the settings of the engine. The number of sandboxes does not change compiled code.
fn config(sandboxes: u32, cache_dir: &Path) -> Result<Config, StartError> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(sandboxes)
        .total_core_instances(sandboxes.saturating_mul(CORE_INSTANCES_EACH))
        .max_core_instances_per_component(CORE_INSTANCES_EACH)
        .total_memories(sandboxes)
        .max_memories_per_component(1)
        .max_memory_size(MAX_MEMORY_MIB as usize * 1024 * 1024)
        .total_tables(sandboxes.saturating_mul(TABLES_EACH))
        .max_tables_per_component(TABLES_EACH)
        .total_stacks(sandboxes)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto);

    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        .cache(Some(cache(cache_dir)?));
    Ok(config)
}

/// The number of running guests, and whether a guest ran since the last tick.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static RAN: AtomicBool = AtomicBool::new(false);

/// A marker for a running guest. While a value of this type exists, the engine's epoch advances at
/// the interval [`TICK`].
pub(crate) struct RunningGuest;

impl RunningGuest {
    /// Records that a guest starts to run. Dropping the returned value records the end.
    pub(crate) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        RAN.store(true, Ordering::Relaxed);
        Self
    }
}

impl Drop for RunningGuest {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Spawns a thread that increments the epoch of the engine, so that guests yield. The thread ends
/// when the engine is dropped. A separate thread is necessary, because guests can occupy every
/// thread of the async runtime.
fn tick(engine: &Engine) -> Result<(), StartError> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("epoch".into())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                let ran = RAN.swap(false, Ordering::Relaxed) || RUNNING.load(Ordering::Relaxed) > 0;
                std::thread::sleep(if ran { TICK } else { IDLE_TICK });
            }
        })
        .map(drop)
        .map_err(|e| {
            StartError::new(format!(
                "failed to start the thread that interrupts sandboxes: {e}"
            ))
        })
}
