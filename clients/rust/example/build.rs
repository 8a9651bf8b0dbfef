//! Generates the stubs from Easel's descriptor image, without protoc.

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../gen/easel.binpb");
    println!("cargo:rerun-if-changed={image}");
    let set = prost_types::FileDescriptorSet::decode(&*std::fs::read(image)?)?;
    tonic_prost_build::configure().build_server(false).compile_fds(set)?;
    Ok(())
}
