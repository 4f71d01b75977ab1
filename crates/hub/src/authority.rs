//! The hub's own authority: it vouches for the hub's address, and for nothing else.

use std::fs;
use std::io;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::credentials::write_secret;

const AUTHORITY: &str = "authority.pem";
const AUTHORITY_KEY: &str = "authority.key";
/// The hub's certificate, and its key.
pub(crate) const SERVER: &str = "server.pem";
pub(crate) const SERVER_KEY: &str = "server.key";

/// The authority's certificate as PEM. Both are made in this folder where they are not there.
pub(crate) fn authority(folder: &Path) -> io::Result<String> {
    if let Ok(known) = fs::read_to_string(folder.join(AUTHORITY)) {
        return Ok(known);
    }
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = of_authority().self_signed(&key).map_err(io::Error::other)?;
    write_secret(&folder.join(AUTHORITY_KEY), key.serialize_pem().as_bytes())?;
    write_secret(&folder.join(AUTHORITY), certificate.pem().as_bytes())?;
    Ok(certificate.pem())
}

/// Vouches anew for the hub under these names and addresses.
pub(crate) fn vouch(folder: &Path, names: &[String]) -> io::Result<()> {
    let key = fs::read_to_string(folder.join(AUTHORITY_KEY))?;
    let key = KeyPair::from_pem(&key).map_err(io::Error::other)?;
    let issuer = Issuer::new(of_authority(), key);
    let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Wallfinder hub");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.signed_by(&key, &issuer).map_err(io::Error::other)?;
    write_secret(&folder.join(SERVER_KEY), key.serialize_pem().as_bytes())?;
    write_secret(&folder.join(SERVER), certificate.pem().as_bytes())
}

fn of_authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "Authority of a Wallfinder hub");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}
