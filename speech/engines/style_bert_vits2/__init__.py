"""The engine `style_bert_vits2`: text to speech with voices of Style-Bert-VITS2 (JP-Extra)."""
