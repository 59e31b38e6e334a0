//! Compresses the script of the viewer of the API description, which is a hundredth of the program.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

const SCRIPT: &str = "src/documentation/redoc/redoc.standalone.js";

/// The highest usual level of Zstandard.
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
