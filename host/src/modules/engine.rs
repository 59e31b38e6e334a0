//! The engine: how every sandbox is made, bounded and interrupted. One for the whole service.
//!
//! What is measured behind the choices: a pool with `PAGEMAP_SCAN` and memory that is reset by copy-on-write makes a fresh
//! sandbox in some 20 µs; without the support for concurrent guest tasks, which no interface of ours uses, a call is cheaper.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::cache::cache;
use crate::error::StartError;

/// How often a guest that runs gives way to what else there is to do. Where as many guests run as there are threads, everybody else waits so long at
/// each of a request's steps.
const TICK: Duration = Duration::from_millis(1);
/// The same while none runs: nobody waits then, and the machine may rest.
const IDLE_TICK: Duration = Duration::from_millis(10);

/// The largest memory a module may be given, in MiB: the pool's slots are made for it.
pub(crate) const LARGEST_MEMORY_MIB: u32 = 256;

/// What a component may consist of: a Rust component is two core modules and the adapters' shims; a Python one is 14, because its interpreter's
/// libraries are modules of their own.
const CORE_INSTANCES_EACH: u32 = 16;
const TABLES_EACH: u32 = 4;

/// Memory that stays mapped in an idle slot: what a small request touches anyway.
const KEEP_RESIDENT: usize = 256 * 1024;

/// The stack of a guest's calls (Wasm frames), and that of the fiber it runs on, which host functions share.
const GUEST_STACK: usize = 512 * 1024;
const FIBER_STACK: usize = GUEST_STACK + 512 * 1024;

/// Makes the engine, with room for `sandboxes` at a time, and its ticker. Compiled components are kept in `cache_dir` by the digest of their
/// bytes, the engine's version and its settings.
///
/// # Errors
/// Where the cache's folder cannot be used, or the machine has no room for the pool.
pub fn engine(sandboxes: u32, cache_dir: &Path) -> Result<Engine, StartError> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(sandboxes)
        .total_core_instances(sandboxes.saturating_mul(CORE_INSTANCES_EACH))
        .max_core_instances_per_component(CORE_INSTANCES_EACH)
        .total_memories(sandboxes)
        .max_memories_per_component(1)
        .max_memory_size(LARGEST_MEMORY_MIB as usize * 1024 * 1024)
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
    let engine = Engine::new(&config)
        .map_err(|e| StartError::new(format!("the sandbox engine cannot be made: {e:#}")))?;
    tick(&engine)?;
    Ok(engine)
}

/// Guests that run at this moment, and whether one did since the epoch was moved on.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static RAN: AtomicBool = AtomicBool::new(false);

/// A guest runs for as long as there is this: the next ticks come soon.
pub(crate) struct Runs;

impl Runs {
    /// It begins.
    pub(crate) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        RAN.store(true, Ordering::Relaxed);
        Self
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Moves the engine's epoch on for as long as the engine lives. On a thread of its own: guests that never yield may hold every thread of
/// the runtime, and it is this that makes them yield.
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
        .map_err(|e| StartError::new(format!("the sandbox's ticker cannot be started: {e}")))
}
