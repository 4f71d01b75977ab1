//! Prints the fingerprint of this machine: `cargo run --example fingerprint [ADDRESS:PORT]`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args()
        .nth(1)
        .map(|text| text.parse())
        .transpose()?;
    println!("{:#?}", wallfinder_probe::fingerprint(target));
    Ok(())
}
