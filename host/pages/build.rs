//! Compresses Redoc, the script that shows the API description. The uncompressed script would add
//! about 0.9 MB to the program.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

const SCRIPT: &str = "src/documentation/redoc/redoc.standalone.js";

/// The compression level. Higher levels of Zstandard need much more memory.
const LEVEL: i32 = 19;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SCRIPT}");
    let compressed = zstd::encode_all(&*fs::read(SCRIPT)?, LEVEL)?;
    fs::write(
        Path::new(&env::var("OUT_DIR")?).join("redoc.js.zst"),
        compressed,
    )?;
    Ok(())
}
