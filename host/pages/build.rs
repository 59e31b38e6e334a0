//! Compresses Redoc, the script that shows the API description, and the pages of the documentation.
//! Uncompressed, they would add about 1.5 MB to the program.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const SCRIPT: &str = "src/documentation/redoc/redoc.standalone.js";
const PAGES: &str = "../../docs";

/// The compression level. Higher levels of Zstandard need much more memory.
const LEVEL: i32 = 19;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SCRIPT}");
    println!("cargo::rerun-if-changed={PAGES}");
    write_compressed("redoc.js.zst", &fs::read(SCRIPT)?)?;
    write_compressed("pages.zst", &pages()?)
}

/// Returns the pages of the documentation. Before each page is a line with its name, and a line
/// with its length in bytes.
fn pages() -> Result<Vec<u8>, Box<dyn Error>> {
    let entries = fs::read_dir(PAGES)?;
    let paths: Result<Vec<PathBuf>, _> = entries
        .map(|entry| Ok::<_, Box<dyn Error>>(entry?.path()))
        .collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort_unstable();
    let mut pages = Vec::new();
    for path in paths {
        let (name, page) = (path.file_name().unwrap_or_default(), fs::read(&path)?);
        writeln!(pages, "{}\n{}", name.display(), page.len())?;
        pages.extend_from_slice(&page);
    }
    Ok(pages)
}

fn write_compressed(name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let compressed = zstd::encode_all(bytes, LEVEL)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join(name), compressed)?;
    Ok(())
}
