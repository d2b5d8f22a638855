// Prints the rows of a parquet file as lines of JSON, numbers of 64 bits as strings.
//
//	node parquet.mjs FILE
import {asyncBufferFromFile, parquetReadObjects} from 'hyparquet';
import {compressors} from 'hyparquet-compressors';

const file = await asyncBufferFromFile(process.argv[2]);
for (const row of await parquetReadObjects({file, compressors})) {
  console.log(JSON.stringify(row, (_, v) => typeof v === 'bigint' ? v.toString() : v));
}
